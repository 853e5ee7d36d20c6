/** The long forms: minutes, not seconds. `npm run proof` runs them; `npm test` does not. */
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.proof.ts'],
    fileParallelism: false,
    testTimeout: 15 * 60_000,
    hookTimeout: 60_000,
    globalSetup: 'test/servers/global-setup.ts',
  },
})
