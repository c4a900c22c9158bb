"""Rules for the code as a whole: layers, adapters, sizes, words, safety, documentation."""
