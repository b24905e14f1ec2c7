-- Beside the database `mlflow`, which the image makes: MLflow's users.
CREATE DATABASE mlflow_auth;
