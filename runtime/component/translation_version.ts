/**
 * What tells one translation of a component from another. Apart from the translation itself, which loads the transpiler.
 *
 * @module
 */

/** Changes whenever the same component is translated differently. Part of the cache's file names. */
export const TRANSLATION_VERSION = "jco-transpile-0.15.0-4";

/** First byte of the translating process's answer: an encoded translation follows. */
export const TRANSLATED = 1;

/** First byte of the translating process's answer: the reason why there is none follows, as UTF-8. */
export const REFUSED = 0;
