"""What a run answers when a page asks: a file for each question, which is imported with the first that is asked."""
