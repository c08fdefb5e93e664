"""Annotation batches: which items to label, written where only the owner reads them, and what is kept of texts."""
