/** What models and scores are called. The server names them in English; words/ has the names in both languages. */

import { knows, t } from "./i18n.js";

/** "classify on encoder" is a task on a kind of model. */
export function kindName(kind) {
  const [, task, base] = /^(\w+) on (.+)$/.exec(kind) ?? [];
  if (task && knows(`task.${task}`)) return ["kind.taskOn", { task: `@task.${task}`, base: keyOf("kind", base) }];
  return knows(`kind.${kind}`) ? [`kind.${kind}`] : ["kind.other", { kind }];
}

const keyOf = (group, name) => (knows(`${group}.${name}`) ? `@${group}.${name}` : name);

/** A score or a loss by its name in the run's record: heldout_masked_accuracy. */
export function metricName(name) {
  const bare = name.replace(/^heldout_/, "");
  const said = knows(`metric.${bare}`) ? t(`metric.${bare}`) : bare.replaceAll("_", " ");
  return bare === name ? said : t("metric.heldout", { name: said });
}
