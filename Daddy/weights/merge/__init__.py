"""Making a version: contributions are judged, weighted and added up."""
