"""What any Python program might have: files, texts, late imports."""
