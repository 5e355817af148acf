"""Floor 2: rows to trainer layouts. One trainer one file."""
