/**
 * fast-check as the tests use it. `npm test` plays the same cases every time, so that it fails for what was changed and
 * for nothing else. `npm run proof` plays new ones each time, and so does `TENURE_TEST_SEED=random`; a number plays
 * those of that seed, which fast-check prints when it finds something.
 */
import fc from 'fast-check'

const given = process.env['TENURE_TEST_SEED'] ?? '1'

if (given !== 'random') fc.configureGlobal({ seed: seedOf(given) })

function seedOf(text: string): number {
  const seed = Number(text)
  if (Number.isInteger(seed)) return seed
  throw new Error(`TENURE_TEST_SEED must be a whole number or "random", got ${text}`)
}

export { fc }
