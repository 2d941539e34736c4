"""What the notebooks let a reader move and try: explorers, exercises, diagrams."""
