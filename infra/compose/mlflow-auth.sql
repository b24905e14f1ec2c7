-- MLflow's users. The image itself creates the database `mlflow`, with the runs.
CREATE DATABASE mlflow_auth;
