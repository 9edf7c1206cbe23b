"""What happened in a training, as events: seen by a watch, or read from the frames and the source text of a failure.

An explanation asks for events (`changes`, `cuts`) and puts them into words; it never asks where they come from.

Offered to other rooms: `asked`, `attached`, `behind`, `changes`, `cut_fixes`, `cuts`, `evaluated`, `failure`, `files`,
`fixes`, `handed`, `hardened`, `in_pytorch`, `injected`, `memory`, `modes`, `routes`, `scenes`, `sections`, `spelling`,
`stale`, `stepping`, `subject`, `trained`, `unmatched`.
"""
