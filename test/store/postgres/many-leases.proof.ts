/** That no more rows are read is shown by postgres-plans.test.ts. */
import { expect, it } from 'vitest'
import { freshDatabase } from '../../servers/shared-servers.ts'
import { reportGrowth } from './many-leases.ts'

it(
  'an acquire among 1,000,000 live leases takes at most 1.5 × the time among 1,000',
  { timeout: 600_000 },
  async () => {
    await using small = await freshDatabase()
    await using large = await freshDatabase()
    const urls = { small: small.url, large: large.url, count: 1_000_000 }
    expect((await reportGrowth(urls)).ratio).toBeLessThanOrEqual(1.5)
  },
)
