/**
 * A process that takes over a derived lease and spends from it, as fast as it can, until there is nothing left. Tells
 * how often it could.
 */
import { isLeaseError, openTenure } from '../../src/index.ts'

const [store = '', holder = '', leaseId = ''] = process.argv.slice(2)
const tenure = await openTenure(store, { holder, session: holder })
const lease = await tenure.adopt(leaseId)
await lease.spend({ tokens: 7, toolCalls: 1 })
process.stdout.write('ready\n')
await new Promise((resolve) => process.stdin.once('data', resolve))
let spent = 1
let code = ''
while (code === '') {
  try {
    await lease.spend({ tokens: 7, toolCalls: 1 })
    spent += 1
  } catch (error) {
    if (!isLeaseError(error)) throw error
    code = error.code
  }
}
process.stdout.write(`${JSON.stringify({ spent, code })}\n`)
lease.abandon()
await tenure.close()
process.exit(0)
