"""Level 9: what is shown: console, tables, page, figures."""
