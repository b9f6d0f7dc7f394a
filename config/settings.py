"""Settings of Hallbook: everything a site may change comes from the environment (see docs/operate.md)."""

from __future__ import annotations

from typing import Any

import dj_database_url
from csp.constants import NONCE, NONE, SELF

from config import env

BASE_DIR = env.BASE
HALLBOOK_HOME = env.home()
DEBUG = env.flag("HALLBOOK_DEBUG")
SECRET_KEY = env.secret(HALLBOOK_HOME / "secret_key")
ALLOWED_HOSTS = env.words("HALLBOOK_ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]"])
HTTPS = env.flag("HALLBOOK_HTTPS")
CSRF_TRUSTED_ORIGINS = [f"https://{host}" for host in ALLOWED_HOSTS if HTTPS and "*" not in host]

INSTALLED_APPS = [
    "config",
    "api",
    "web",
    "billing",
    "jobs",
    "fleet",
    "events",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.staticfiles",
    "django_filters",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.middleware.gzip.GZipMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "events.answers.per_request",
]

ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
            ],
        },
    },
]


def _database(url: str, role: str) -> dict[str, Any]:
    """One alias: the server named by URL, else the embedded one under HALLBOOK_HOME in the given role."""
    if url:
        parsed: dict[str, Any] = dict(dj_database_url.parse(url, conn_max_age=600, conn_health_checks=True))
        return parsed
    return {
        "ENGINE": "config.postgres",
        "NAME": "hallbook",
        "USER": role,
        "HALLBOOK_HOME": str(HALLBOOK_HOME),
        "CONN_MAX_AGE": 600,
        "CONN_HEALTH_CHECKS": True,
    }


# `default` is the application's role (SELECT and INSERT on the log); `owner` runs migrations and rebuilds.
DATABASES = {
    "default": _database(env.text("DATABASE_URL"), "hallbook"),
    "owner": _database(env.text("DATABASE_OWNER_URL", env.text("DATABASE_URL")), "hallbook_owner"),
}
DATABASE_ROUTERS: list[str] = []
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
SHARD = env.number("HALLBOOK_SHARD", 0)

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "login"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False

STATIC_URL = "static/"
STATIC_ROOT = HALLBOOK_HOME / "static"
STATIC_ROOT.mkdir(exist_ok=True)
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG

SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS
SECURE_SSL_REDIRECT = HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = HTTPS
SECURE_HSTS_PRELOAD = HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if env.flag("HALLBOOK_BEHIND_PROXY") else None
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "img-src": [SELF, "data:"],
        "style-src": [SELF, NONCE],
        "script-src": [SELF],
        "object-src": [NONE],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    },
}

INGEST_MAX_BYTES = env.number("HALLBOOK_INGEST_MAX_BYTES", 16 * 1024 * 1024)
DATA_UPLOAD_MAX_MEMORY_SIZE = INGEST_MAX_BYTES
FAULT_CATALOGUE = env.text("HALLBOOK_FAULT_CATALOGUE")
PULL_MAX_BYTES = env.number("HALLBOOK_PULL_MAX_BYTES", 128 * 1024 * 1024)
MAX_PENDING_DELIVERIES = env.number("HALLBOOK_MAX_PENDING_DELIVERIES", 200_000)

# Unset: mails are written to files, readable by their owner only, and the page Mail says so.
MAIL_SERVER = env.mail_server("EMAIL_URL")
EMAIL_BACKEND = f"django.core.mail.backends.{'smtp' if MAIL_SERVER else 'filebased'}.EmailBackend"
EMAIL_FILE_PATH = str(HALLBOOK_HOME / "mail")
if MAIL_SERVER:
    EMAIL_HOST, EMAIL_PORT, EMAIL_HOST_USER, EMAIL_HOST_PASSWORD, EMAIL_USE_TLS, EMAIL_USE_SSL = MAIL_SERVER
else:
    (HALLBOOK_HOME / "mail").mkdir(mode=0o700, exist_ok=True)
EMAIL_TIMEOUT = 20
_host = next((host for host in ALLOWED_HOSTS if host.strip("*.[")), "localhost").lstrip(".")
_scheme = "https" if HTTPS else "http"
# `manage.py serve` tells its web, worker and beat the port that it serves on.
_port = f":{env.number('HALLBOOK_PORT', 8000)}" if _host in ("localhost", "127.0.0.1") else ""
SITE_URL = env.address("HALLBOOK_URL", f"{_scheme}://{_host}{_port}")
SITE_URL_GIVEN = bool(env.text("HALLBOOK_URL"))
DEFAULT_FROM_EMAIL = env.text("HALLBOOK_MAIL_FROM", f"Hallbook <hallbook@{_host}>")
WEEKLY_MAIL_AT = env.clock("HALLBOOK_WEEKLY_MAIL", "07:00")

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "api.auth.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["api.permissions.ScopedAccess"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PAGINATION_CLASS": "api.pagination.CursorPages",
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "api.errors.problem",
    "PAGE_SIZE": 100,
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Hallbook",
    "DESCRIPTION": "The book of record for AI-training clusters: what ran, what it used, what it cost.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SCHEMA_PATH_PREFIX": "/api/v1",
}

CELERY_BROKER_URL = env.text("CELERY_BROKER_URL", "filesystem://localhost")

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    # A client's 4xx is the client's to read; the log of requests is the web server's.
    "loggers": {"django.request": {"level": "ERROR"}},
    "root": {"handlers": ["stderr"], "level": env.text("HALLBOOK_LOG_LEVEL", "WARNING")},
}
