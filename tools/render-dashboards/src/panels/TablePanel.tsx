import { cacheFieldDisplayNames, type PanelProps } from '@grafana/data';
import { TableNG } from '@grafana/ui/unstable';
import { hasValues, Message } from './Message';

export const TablePanel = (panel: PanelProps<any>) => {
  const { data, options, width, height, replaceVariables } = panel;
  if (!hasValues(panel)) {
    return <Message panel={panel} />;
  }
  // Without it, renamed columns keep their first names.
  cacheFieldDisplayNames(data.series);
  return (
    <TableNG
      {...({} as any)}
      data={data.series[options.frameIndex ?? 0]}
      width={width}
      height={height}
      noHeader={!options.showHeader}
      cellHeight={options.cellHeight}
      showTypeIcons={Boolean(options.showTypeIcons)}
      resizable
      initialSortBy={options.sortBy}
      structureRev={data.structureRev}
      timeRange={panel.timeRange}
      getActions={() => []}
      replaceVariables={replaceVariables}
      setDataLinksContext={() => {}}
    />
  );
};
