"use strict";
/* Shows the schema that the page names; a file of its own, since the content policy allows no inline script. */
const docs = document.getElementById("docs");
SwaggerUIBundle({
  url: docs.dataset.schema,
  domNode: docs,
  deepLinking: true,
  validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis],
});
