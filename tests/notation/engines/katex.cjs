// Reads a JSON list of LaTeX, writes for each {"error": …} or {"mathml": …}, as KaTeX renders it.
const katex = require("katex");
const fs = require("fs");

const answers = JSON.parse(fs.readFileSync(0, "utf8")).map((latex) => {
  const options = { throwOnError: true, strict: "error", output: "htmlAndMathml" };
  try {
    katex.renderToString(latex, { ...options, displayMode: false });
    const html = katex.renderToString(latex, { ...options, displayMode: true });
    return { mathml: html.match(/<math[^]*<\/math>/)[0] };
  } catch (error) {
    return { error: error.message };
  }
});
fs.writeFileSync(1, JSON.stringify(answers));
