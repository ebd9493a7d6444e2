import type { PanelProps } from '@grafana/data';
import { TimeSeries } from '@grafana/ui';
import { Marks } from './Marks';
import { hasValues, Message } from './Message';

const legend = { showLegend: true, displayMode: 'list', placement: 'bottom', calcs: [] };

export const TimeSeriesPanel = (panel: PanelProps<any>) => {
  const { data, options, timeRange, timeZone, width, height } = panel;
  if (!hasValues(panel)) {
    return <Message panel={panel} />;
  }
  return (
    <TimeSeries
      frames={data.series}
      structureRev={data.structureRev}
      timeRange={timeRange}
      timeZone={timeZone}
      width={width}
      height={height}
      legend={options.legend ?? legend}
      options={options}
    >
      {(config) => <Marks config={config} frames={data.annotations} />}
    </TimeSeries>
  );
};
