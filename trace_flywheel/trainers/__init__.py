"""Floor 2: rows in the shape that one trainer loads. One trainer one file, found by the registry by its name."""
