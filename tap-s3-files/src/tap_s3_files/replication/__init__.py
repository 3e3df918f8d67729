"""How the tap learns of new objects: one file for each method."""
