"""trace-flywheel: finished agent runs in, trustworthy training data out."""
