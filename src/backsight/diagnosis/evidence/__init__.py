"""What rules and explanations look at: the frames of a failure, variables, memory, and the source behind them."""
