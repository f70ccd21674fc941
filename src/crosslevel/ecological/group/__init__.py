"""The paper's link: one latent value per bag of people, a Gaussian process of its mean embedding and its place."""
