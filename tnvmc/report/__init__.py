"""Level 8: what is shown: console, tables, page, figures."""
