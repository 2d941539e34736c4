"""What every part of the kit uses: checks of numbers, records and paths, text, pictures, locks."""
