/** `tenure upgrade`: from sharing a resource to having it alone, without letting it go in between. */
import { waitOption, type Option } from '../arguments.ts'
import { defineCommand, type Call, type Command } from '../command.ts'
import { findLeaseId } from '../lease-argument.ts'
import { leaseCard } from '../lease-card.ts'
import { listenForInterruption, signalExitCode } from '../signals.ts'
import { withApi } from '../store-access.ts'
import { upgradeLease } from '../upgrade-wait.ts'

type UpgradeTable = { readonly wait: Option<number> }

export const upgrade: Command = defineCommand({
  positionals: [{ name: 'LEASE', help: 'the id of the lease, or its resource' }],
  options: {
    wait: waitOption(
      'wait',
      'wait so long for the others to leave, or forever (default: do not wait)',
    ),
  },
  notes: [
    'The lease keeps its id and gets a new fence. While it waits, the lease stays shared, nobody new comes in, and nothing renews it. Of two who both wish to be alone the second is refused, because each would wait for the other.',
  ],
  examples: [
    'tenure upgrade src/app.ts --holder agent-7',
    'tenure upgrade 0d7c7a54-5c1f-4a44-9d4c-6a1ce6f0a5c2 --holder agent-7 --wait 30s --json',
  ],
  run,
})

async function run(call: Call<UpgradeTable>): Promise<number> {
  const { identity, positionals, options, printer, cwd } = call
  const { holder } = identity
  const interruption = listenForInterruption()
  try {
    return await withApi(identity, async (api) => {
      const leaseId = await findLeaseId(api, { text: positionals[0] ?? '', cwd, holder })
      const session = identity.session ?? holder
      const { signal } = interruption
      const wish = { leaseId, holder, session, waitMs: options.wait ?? 0, signal }
      const upgraded = await upgradeLease(api, wish)
      if (upgraded === null) return signalExitCode(interruption.received ?? 'SIGTERM')
      const { lease, changed } = upgraded
      const effect = `lease ${lease.id} of ${lease.resource} is exclusive`
      printer.effect(effect, { ...lease, changed }, () => {
        const nothing = `${lease.resource} is exclusive already: nothing changed`
        return leaseCard(changed ? `upgraded ${lease.resource}` : nothing, lease, Date.now())
      })
      return 0
    })
  } finally {
    interruption.stop()
  }
}
