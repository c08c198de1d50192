// Reads a JSON list of LaTeX, writes for each {"error": …}, or {"mathml": …, "switched": …} as MathJax
// renders it. A page has the packages of MathJax's default component; \color is either of two: its
// own, which takes the coloured part as an argument, or, in "switched", LaTeX's switch.
const { mathjax } = require("mathjax-full/js/mathjax.js");
const { TeX } = require("mathjax-full/js/input/tex.js");
const { STATE } = require("mathjax-full/js/core/MathItem.js");
const { liteAdaptor } = require("mathjax-full/js/adaptors/liteAdaptor.js");
const { RegisterHTMLHandler } = require("mathjax-full/js/handlers/html.js");
const { SerializedMmlVisitor } = require("mathjax-full/js/core/MmlTree/SerializedMmlVisitor.js");
require("mathjax-full/js/input/tex/AllPackages.js");
const fs = require("fs");

RegisterHTMLHandler(liteAdaptor());
const visitor = new SerializedMmlVisitor();
// Without noundefined and noerrors, which show a mistake in red instead of reporting it.
const pages = ["colorv2", "color"].map((color) => {
  const packages = ["base", "ams", "newcommand", "configmacros", "boldsymbol", color];
  const refuse = (_, error) => { throw error; };
  return mathjax.document("", { InputJax: new TeX({ packages, formatError: refuse }) });
});

const answers = JSON.parse(fs.readFileSync(0, "utf8")).map((latex) => {
  try {
    const [mathml, switched] = pages.map((page) =>
      visitor.visitTree(page.convert(latex, { display: true, end: STATE.CONVERT })));
    return { mathml, switched };
  } catch (error) {
    return { error: error.message };
  }
});
fs.writeFileSync(1, JSON.stringify(answers));
