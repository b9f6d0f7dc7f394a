"""Addresses of mail: a person's choices, the preview, and the link in each mail that switches it off."""

from __future__ import annotations

from django.urls import path

from web import mail, mailoff

urlpatterns = [
    path("mail/", mail.mail, name="mail"),
    path("mail/choose", mail.choose, name="mail-choose"),
    path("mail/preview", mail.preview, name="mail-preview"),
    path("mail/preview.txt", mail.preview_text, name="mail-preview-text"),
    path("mail/off/<str:given>/", mailoff.off, name="mail-off"),
]
