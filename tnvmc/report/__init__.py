"""Level 10: what is shown: console, tables, page, figures."""
