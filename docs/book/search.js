// Pages of prose come before those of the API, whatever both say (Sphinx: html_search_scorer).
var Scorer = {
  score: ([page, , , , score]) => (page.startsWith("docs/book/api/") ? score / 100 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
