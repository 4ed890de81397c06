"""Subjects: the grammar, the index, permissions and mappings."""
