# The MLflow server, with PostgreSQL, S3 and authentication. It holds no secret. Build from the root:
#   docker build -f infra/images/mlflow.Dockerfile -t rnnsweep-mlflow .
FROM python:3.11-slim
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
COPY requirements-cluster.lock infra/images/mlflow.txt ./
RUN pip install -r mlflow.txt -c requirements-cluster.lock
COPY infra/images/mlflow-auth.ini /etc/mlflow/auth.ini
COPY infra/tls/certificates.sh /usr/local/bin/
RUN useradd --create-home --uid 1000 mlflow && install -d -o mlflow -g mlflow /artifacts /ca /tls
ENV MLFLOW_AUTH_CONFIG_PATH=/etc/mlflow/auth.ini \
    MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false
USER mlflow
WORKDIR /home/mlflow
EXPOSE 5000
# PGHOST, PGUSER and PGPASSWORD locate `postgresql+psycopg2:///mlflow`. MLFLOW_ARTIFACTS_DESTINATION
# and MLFLOW_SERVER_ALLOWED_HOSTS are read from the environment as well.
CMD ["mlflow", "server", "--host=0.0.0.0", "--port=5000", "--workers=2", "--app-name=basic-auth", \
     "--backend-store-uri=postgresql+psycopg2:///mlflow"]
