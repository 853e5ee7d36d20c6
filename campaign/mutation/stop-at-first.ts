/**
 * Runs before every test file of a mutant. One worker has them all, and Vitest's `bail` would still load those after the
 * first failure, though it runs none of their tests. State must be global: this module is loaded anew for each file.
 */
import { beforeEach } from 'vitest'

const seen = globalThis as { hasFailed?: true }
if (seen.hasFailed === true) throw new Error('an earlier test has noticed the mutant')

beforeEach(({ onTestFailed }) => {
  onTestFailed(() => {
    seen.hasFailed = true
  })
})
