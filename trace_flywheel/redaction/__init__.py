"""Floor 2: secrets and personal data out of text, fail closed."""
