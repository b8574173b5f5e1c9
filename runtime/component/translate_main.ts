/**
 * Entry of the translating process in a checkout; a bundle enters {@linkcode serveTranslation} by a hidden mode.
 *
 * @module
 */
import { serveTranslation } from "./translate.ts";

await serveTranslation();
