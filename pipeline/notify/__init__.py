"""Tells others how a run went: in short as Markdown, as annotations of a check, by a webhook."""
