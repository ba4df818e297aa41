"""What earlier runs say about a result; the journals in their folders are the store."""
