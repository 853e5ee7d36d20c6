/** The long forms: minutes, not seconds. `npm run proof` runs them; `npm test` does not. */
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { defineConfig } from 'vitest/config'

/** Tests of properties play new cases here; `npm test` plays the same every time. */
const PROPERTIES = readdirSync('test', { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.test.ts'))
  .map((name) => path.join('test', name))
  .filter((file) => readFileSync(file, 'utf8').includes('/fast-check.ts'))

export default defineConfig({
  test: {
    include: ['test/**/*.proof.ts', ...PROPERTIES],
    env: { TENURE_TEST_SEED: 'random' },
    fileParallelism: false,
    testTimeout: 15 * 60_000,
    hookTimeout: 60_000,
    globalSetup: 'test/servers/global-setup.ts',
  },
})
