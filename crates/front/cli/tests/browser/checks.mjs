// What holds for every view: nothing a screen reader would miss, in both themes, and nothing that does not fit a screen.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const { PACKAGES, IMAGES, LOOK } = process.env;
const axe = readFileSync(join(PACKAGES, "axe-core/axe.min.js"), "utf8");
/** The views whose pictures are in the docs, with the names of these. */
const pictured = new Map([
  ...["sessions", "conversation", "turn", "diff", "events", "cache", "changes", "explain", "inspector"].map((name) => [name, name]),
  ["other-usage", "usage"],
]);

/**
 * Checks a view. With IMAGES its picture for the docs is written; with LOOK, pictures of it in every size and theme.
 * @param {import("playwright-core").Page} page
 * @param {string} name
 * @param {string} [top] the element that the picture begins with
 */
export async function inspect(page, name, top) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => globalThis.axe.run(document));
    assert.deepEqual(
      violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html.slice(0, 200))]),
      [],
      `${name}, ${colorScheme}`,
    );
    for (const [width, height] of [[400, 800], [1280, 900], [3840, 2160]]) {
      await page.setViewportSize({ width, height });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= width, `${name} is ${wide} wide in ${width}`);
      if (LOOK) await picture(page, join(LOOK, `${name}-${width}-${colorScheme}.png`), top);
    }
    await page.setViewportSize({ width: 1280, height: 900 });
  }
  await page.emulateMedia({ colorScheme: "light" });
  if (IMAGES && pictured.has(name)) await picture(page, join(IMAGES, `${pictured.get(name)}.png`), top);
}

async function picture(page, path, top) {
  mkdirSync(join(path, ".."), { recursive: true });
  await page.evaluate((top) => {
    const element = top ? document.querySelector(top) : null;
    if (element) scrollTo(0, element.getBoundingClientRect().top + scrollY - 70);
    else scrollTo(0, 0);
  }, top);
  await page.screenshot({ path });
}
