"""{{greeting}}"""
