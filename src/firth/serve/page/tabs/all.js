/** The tabs in their order. */

import { answer } from "./answer.js";
import { attention } from "./attention.js";
import { classify } from "./classify.js";
import { context } from "./context.js";
import { fill } from "./fill.js";
import { generate } from "./generate.js";
import { image } from "./image.js";
import { label } from "./label.js";
import { layers } from "./layers.js";
import { runs } from "./runs.js";
import { search } from "./search.js";
import { similar } from "./similar.js";
import { tag } from "./tag.js";
import { tokens } from "./tokens.js";
import { translate } from "./translate.js";
import { words } from "./words.js";

export const TABS = [
  words,
  fill,
  context,
  similar,
  search,
  attention,
  generate,
  translate,
  classify,
  label,
  tag,
  answer,
  image,
  tokens,
  layers,
  runs,
];
