"""The calls of tools that people come from, answered by backsight."""
