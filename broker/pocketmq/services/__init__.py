"""The broker's services; they do not depend on wire protocols."""
