/** A program that can be bundled into one file: it brings its driver as a client. docs/recipes/bundling.md */
import { Redis } from 'ioredis'
import { openTenure } from 'tenure'

async function main() {
  const redis = new Redis(process.argv[2] ?? process.env.TENURE_STORE ?? 'redis://127.0.0.1')
  const tenure = await openTenure({ redis }, { holder: `job-${process.pid}` })
  await tenure.withLease('work:W-17', (lease) => {
    console.log(`${lease.resource} is ${lease.state}`)
  })
  await tenure.close()
  await redis.quit() // it is the program's own
}

void main() // not awaited: CommonJS has no await outside of functions
