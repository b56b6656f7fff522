/** A run's report as a file, where the server requires a token: a link cannot carry one, and a page made of what was
 *  fetched would inherit this page's policy, which forbids the report's own styles. */

import { request } from "./api.js";
import { make } from "./dom.js";

export async function saveReport(route, name) {
  const address = URL.createObjectURL(await (await request(route)).blob());
  make("a", { href: address, download: `${name}.html` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
