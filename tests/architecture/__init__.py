"""What must hold for the code as a whole: layers, doors, sizes, words, safety, documentation."""
