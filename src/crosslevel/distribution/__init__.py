"""What label belongs to a group, given a sample of its members, and how much does a small sample cost?"""
