import fc from 'fast-check';

/*
 * fast-check for tests that are no searches of their own (test/fuzz/budget.ts is). With CI set, every property starts from
 * the same seed: a build then fails for what it changed, not for its luck. Elsewhere each run looks at others.
 */

if (process.env.CI !== undefined) fc.configureGlobal({ seed: 20_261_120 });

export { default } from 'fast-check';
