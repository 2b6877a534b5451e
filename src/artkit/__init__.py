"""artkit."""
