/** Image: its labels, and what the class token looks at, drawn over it. */

import { request } from "../api.js";
import { aroundEven, legend } from "../charts/heat_map.js";
import { make } from "../dom.js";
import { percent } from "../numbers.js";
import { python } from "../snippets.js";
import { errorNote } from "../tool.js";
import { overview } from "./attention.js";
import { showPrediction } from "./classify.js";
import { confusionOf } from "./confusion.js";

const SIZE = 420; // pixels along the edge of the large picture
const DARKEST = 0.85; // where nothing is looked at

/** One scale for every picture of an image: [least, even, greatest] share of a patch in all heads of all layers; at least from half
 *  to twice the even share, so that nothing which is nearly even looks focused. */
function scaleOf({ weights, rollout }) {
  const all = [...weights.flat(), rollout].flat(2);
  const even = 1 / rollout.flat().length;
  return [all.reduce((low, one) => Math.min(low, one), even / 2), even, all.reduce((high, one) => Math.max(high, one), 2 * even)];
}

/** The image as the model reads it, a square, dark where it is not looked at. */
function paint(canvas, bitmap, weights, shade) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = canvas.height = Math.round(SIZE * ratio);
  const pen = canvas.getContext("2d");
  pen.imageSmoothingEnabled = bitmap.width > 128; // tiny images show their pixels
  pen.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  if (!weights) return;
  const [high, wide] = [canvas.height / weights.length, canvas.width / weights[0].length];
  pen.fillStyle = "black";
  weights.forEach((row, down) =>
    row.forEach((weight, across) => {
      const [left, top] = [Math.round(across * wide), Math.round(down * high)];
      const [right, bottom] = [Math.round((across + 1) * wide), Math.round((down + 1) * high)];
      pen.globalAlpha = DARKEST * (1 - shade(weight));
      pen.fillRect(left, top, right - left, bottom - top);
    }),
  );
  pen.globalAlpha = 1;
}

/** The picture with the attention of one head, or rolled out over all layers. */
function showLook(answer, bitmap, place) {
  const title = make("h3", {});
  const canvas = make("canvas", { class: "photo", role: "img", sayLabel: "image.map" });
  const scale = scaleOf(answer);
  const shade = aroundEven(...scale);
  const show = (weights, ...words) => {
    title.replaceChildren(make("span", { say: words }));
    paint(canvas, bitmap, weights, shade);
  };
  const { grid, mark } = overview(
    answer.weights,
    (layer, head) => {
      rolled.setAttribute("aria-pressed", "false");
      show(answer.weights[layer][head], "attention.head", { layer: layer + 1, head: head + 1 });
    },
    shade,
  );
  const onclick = () => {
    mark();
    rolled.setAttribute("aria-pressed", "true");
    show(answer.rollout, "image.rollout");
  };
  const rolled = make("button", { type: "button", class: "plain", "aria-pressed": "false", say: "image.rollout", onclick });
  place.append(
    make(
      "div",
      { class: "side-by-side" },
      make("div", {}, title, canvas, make("p", { class: "note", say: "image.note" })),
      make("div", {}, rolled, legend("legend.patches", scale, shade, percent), make("div", { class: "scrolls" }, grid)),
    ),
  );
  onclick();
}

/** What the image adds stands below the labels. */
function showImage(answer, { image: file }, tool) {
  if (file.isExample) tool.output.append(make("p", { class: "note", say: file.said ?? "image.example" }));
  if (answer.predictions) showPrediction(answer, {}, tool);
  const below = make("div", { class: "part" }, make("p", { class: "note waiting", say: "page.waiting" }));
  const show = (bitmap) => {
    if (!tool.model.abilities.includes("look")) {
      const canvas = make("canvas", { class: "photo", role: "img", sayLabel: "image.shown" });
      below.replaceChildren(canvas);
      paint(canvas, bitmap);
    } else if (answer.rollout) {
      below.replaceChildren();
      showLook(answer, bitmap, below);
    } else {
      tool.follow("/look", file, below, (found) => showLook(found, bitmap, below), null);
    }
  };
  createImageBitmap(file).then(show, (error) => below.replaceChildren(errorNote(error)));
  return below;
}

const look = {
  id: "image",
  ability: "encode",
  route: (model) => (model.abilities.includes("predict") ? "/predict" : "/look"),
  button: "image.go",
  hint: "image.hint",
  fields: [{ name: "image", kind: "file", label: "image.file", example: "image", accept: "image/png,image/jpeg,image/webp" }],
  body: ({ image }) => image,
  library: ({ image }, model) =>
    model.abilities.includes("predict")
      ? `print(model.predict(${python(image.name)}))`
      : `print(model.encode(${python(image.name)}))`,
  show: showImage,
};

export const image = {
  id: "image",
  title: "tab.image",
  lead: "image.lead",
  how: "image.how",
  story: "15-vit",
  task: true,
  tools: [look],
  below(model, [tool]) {
    const onpick = async ({ number, text, true: truth }) => {
      const response = await request(`/runs/${encodeURIComponent(model.name)}/dev/${number}/image`);
      const file = new File([await response.blob()], text, { type: "image/png" });
      tool.form.give("image", Object.assign(file, { isExample: true, said: ["image.dev", { name: text, truth }] }));
      tool.run();
      tool.element.scrollIntoView({ block: "start" });
    };
    return [confusionOf(model, onpick)];
  },
  suits: ({ abilities, images }) => images && (abilities.includes("predict") || abilities.includes("look")),
};
