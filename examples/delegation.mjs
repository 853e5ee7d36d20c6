/**
 * A supervisor holds a repository and delegates less than it has to two sub-agents. One wants to spend more than it was
 * given, the other is revoked; an auditor then proves from an exported ledger what happened, with nothing but the
 * public key.
 *
 * Run it with `node examples/delegation.mjs` (after `npm run build`).
 */
import { openTenure } from 'tenure'
import { authorizeGrant, generateSigningKey, verifyGrant } from 'tenure/delegation'
import {
  LedgerChain,
  LeaseReducer,
  entryOf,
  ledgerRecord,
  sealChain,
  verifyLedger,
} from 'tenure/ledger'

const signingKey = generateSigningKey()
const tenure = await openTenure('memory:', { holder: 'supervisor', signingKey })
const repository = await tenure.acquire('file:/repo', {
  extent: 'subtree',
  ttlMs: 60_000,
  budget: { tokens: 2_000 },
})

const writer = await repository.derive({
  holder: 'writer',
  resource: 'file:/repo/src',
  extent: 'subtree',
  scope: { tools: ['edit'], namespaces: ['src'] },
  budget: { tokens: 1_000, toolCalls: 3 },
})
const tester = await repository.derive({
  holder: 'tester',
  resource: 'file:/repo/test',
  extent: 'subtree',
  scope: { tools: ['edit', 'run'], namespaces: ['test'] },
  budget: { tokens: 500 },
})

// A tool server knows the public key, and nothing else: no store, no secret.
const { keyId, publicKey } = signingKey
const keys = [{ keyId, publicKey, state: 'active', retiresAtMs: null }]
const check = (token, act) => {
  try {
    authorizeGrant(verifyGrant(token, keys, { now: Date.now() }), act)
    return 'allowed'
  } catch (error) {
    return error.code
  }
}
console.log('writer edits src/app.ts:', check(writer.grant, { tool: 'edit', path: 'src/app.ts' }))
console.log('writer edits src_backup:', check(writer.grant, { tool: 'edit', path: 'src_backup/a' }))
console.log('writer runs the tests:', check(writer.grant, { tool: 'run', path: 'src' }))

await writer.spend({ tokens: 900, toolCalls: 1 })
const overspent = await writer.spend({ tokens: 200 }).catch((error) => error)
console.log('writer overspends:', overspent.code, overspent.details.left, 'tokens were left')

await tenure.revoke(tester.id, { reason: 'off the rails' })
console.log('tester was revoked:', tester.state, tester.signal.reason.details.reason)
await writer.release({ reason: 'completed' })
console.log('the supervisor has', (await repository.spend({ tokens: 100 })).tokens, 'tokens left')

// The ledger is exported and sealed. The auditor gets the lines, the checkpoint and the public key.
const chain = new LedgerChain()
const lines = (await tenure.history({ limit: 1_000, refusals: false })).map((entry) =>
  chain.append(entry),
)
const checkpoints = [sealChain(chain, { key: signingKey, atMs: Date.now(), previous: null })]
await tenure.close()

const verdict = verifyLedger({ lines, checkpoints }, keys)
console.log('the ledger is whole:', verdict.ok, `(${verdict.sealed} events)`)
const reducer = new LeaseReducer()
for (const line of lines) reducer.apply(ledgerRecord(entryOf(line).event))
for (const { actorId, state } of reducer.state.leasesByActor('tester'))
  console.log(actorId, 'is', state)
const used = reducer.state.get(writer.id)?.entry.delegation?.used
console.log('writer spent', used?.tokens, 'tokens and', used?.toolCalls, 'tool call')

const forged = lines.map((line) => line.replace('"tokens":900', '"tokens":1'))
const found = verifyLedger({ lines: forged, checkpoints }, keys)
console.log('a forged ledger is whole:', found.ok, `(${found.first?.problem})`)
